"""Programs and instructions on batches of images and registers."""

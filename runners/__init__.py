"""Programs into PTX, and PTX onto something that runs or judges it."""

"""What people and programs see of a campaign or a screening."""

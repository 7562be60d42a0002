"""What went wrong: verdicts, where results differ, why, and the finding that is kept."""

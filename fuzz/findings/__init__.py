"""What went wrong: verdicts, families, and the finding that is kept, asked about and run again."""

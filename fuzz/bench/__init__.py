"""How soon a campaign finds each planted fault, and what its programs reach."""

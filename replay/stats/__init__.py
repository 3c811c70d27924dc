"""Statistics of rare events: exact where counts are small, honest where events come in clusters."""

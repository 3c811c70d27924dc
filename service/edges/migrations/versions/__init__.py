"""One file a migration; one head, checked by a test."""

"""The floor that does input and output, and obeys what the core decides."""

"""What a run's answers say: each one judged, then counted, then compared."""

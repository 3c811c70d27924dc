"""From an incident and what is known of the fleet to what may have caused it, ranked, for and against."""

"""What a plan is made of: arrivals, levels in rounds, bodies, doses, agents."""

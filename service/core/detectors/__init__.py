"""Placeholder until the registry lands."""

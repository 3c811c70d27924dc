"""Replay put to the proof on the lab, where the cause is known: the demo, and what it stands on."""

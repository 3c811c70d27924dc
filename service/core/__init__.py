"""The pure floor: parsers, detectors, policies. Time is a parameter; nothing here waits, logs or draws."""

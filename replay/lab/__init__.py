"""The reference prefill-decode backend: a small real engine whose faults are switches on real mechanisms."""

"""The harness: record, plan, send, judge. It talks to the service over the wire."""

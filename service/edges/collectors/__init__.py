"""Collectors: what engines and routers say beside the streams. All of it is optional, none can stop a stream.

- `probe`    datagrams of the probe in the scheduler: exact verify steps by rid.
- `scrape`   Prometheus expositions of workers, first hand or relayed by the router; else their load.
- `logtail`  the engine's log lines.
"""

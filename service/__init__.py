"""SpecGuard's sidecar: the floors of the house, and the path of one chunk through it.

Floors; a module imports only from floors below its own, and import-linter proves it:

- `service.cli`      commands; starts processes, prints results.
- `service.app`      the composition root: builds every object once and owns the tasks.
- `service.edges`    all input and output: sockets, the store, Prometheus, the admin API.
- `service.config`   settings and rules, parsed once into frozen objects; the only reader of env and YAML.
- `service.core`     pure and synchronous: events and a time in, verdicts and actions out.
- `service.probe`    runs inside the engine, alone on the standard library.

A chunk: upstream bytes, stamped once -> `monitor.feed(data, now)` -> SSE split -> dialect event ->
acceptance step -> detectors -> fusion -> hold-back -> actions, which the proxy obeys. All of it in one tick:
no await inside, no queue, no second task, no log, no SQL. What is released is the engine's own bytes, less
the fields we asked for. A detector that raises is counted and switched off for that stream, and the stream
goes on; only a `strict` route fails closed. Silence is an event too: one ticker of 250 ms drives stalls and
hold-back deadlines.

`replay` reaches the service over the wire and shares `service.core`, nothing else.
"""

"""The demo: agent-like traffic through a guarded lab, judged by the lab's own ledger.

    sessions.py   what is asked: sessions of tasks with one right answer each, in three shapes
    client.py     one request as a client lives it, and how it ended
    traffic.py    several sessions at once until time or requests run out
    evidence.py   what the sidecar says it saw: incidents and cases from its admin port
    truth.py      the join: what was corrupted, caught, recovered, missed
    table.py      the score as a table and as JSON
    progress.py   one live line
    sidecar.py    `specguard serve` as a process of ours
    stack.py      lab, router and sidecar, up together and down together
    run.py        all of it

Nothing here decides what the score will be: faults are drawn by the lab, verdicts fall in the sidecar, truth
is the lab's ledger, and the client counts only what it was sent.
"""

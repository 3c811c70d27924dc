"""SGLang's Rust client by its extension module alone, without SGLang's Python.

    sglang_rust.py MODULE OPTIONS...

Runs in an environment that has nothing but the sglang wheel, hence the standard library only.
"""

import importlib.util
import sys


def main(module: str, words: list[str]) -> None:
    spec = importlib.util.spec_from_file_location("_bench", module)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{module} is no extension module")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    bench.run_argv(["sglang-bench", *words])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

"""``python forked_pages.py PROCESSES PAGE FOLDER PAGE FOLDER …``: run pages of the documentation, several at a time.

Every page runs in its folder, in a process that begins as a copy of this one, which has imported what nearly all pages
need and computed nothing: importing it takes longer than running most of them. Warnings are errors, but for pages that
need other packages, which may warn. A page prints what
``docs/run_page.py`` prints, into the file `stdout` of its folder; its errors are in `stderr`. This process prints a
line for every page that is done, with its exit code.
"""

import gc
import importlib
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

import run_page

IMPORTED = ("matplotlib.pyplot", "factorax.ppo.model", "factorax.runs", "factorax.discovery")


def run(page: str, folder: str) -> None:
    os.chdir(folder)
    for stream, name in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
        stream.flush()
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), stream.fileno())
    warnings.resetwarnings()
    warnings.simplefilter("default" if run_page.needs(Path(page).read_text(encoding="utf-8")) else "error")
    run_page.main([page])


def start(page: str, folder: str) -> int:
    """Return the number of the process that runs a page."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            run(page, folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return process


def main(processes: int, *arguments: str) -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # imported modules stay: no page searches them for garbage, nor copies their memory for it
    gc.set_threshold(50_000, 20, 20)  # tracing allocates much and leaves few cycles
    warnings.simplefilter("ignore")  # JAX warns of every fork
    waiting = list(zip(arguments[::2], arguments[1::2], strict=True))
    running: dict[int, str] = {}
    while waiting or running:
        while waiting and len(running) < processes:
            page, folder = waiting.pop(0)
            running[start(page, folder)] = page
        process, status = os.wait()
        print(json.dumps([running.pop(process), os.waitstatus_to_exitcode(status)]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

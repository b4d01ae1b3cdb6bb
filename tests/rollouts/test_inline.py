"""An environment that hangs in this process: the stack says where, and the rollout goes on."""

import sys
import time

from rollouts.environments import Drift
from rollouts.helping import inline, iterations, plan_of

from factorax.rollouts import Inline


class Slow(Drift):
    """Waits in its third step until something has been written to the file, or for a minute."""

    file = None

    def step(self, action):
        self.steps = getattr(self, "steps", 0) + 1
        end = time.monotonic() + 60.0
        while self.steps == 3 and not self.file.stat().st_size and time.monotonic() < end:
            time.sleep(0.01)
        return super().step(action)


def test_stack_of_a_hanging_environment_is_written_once_and_the_rollout_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(Slow, "file", tmp_path / "stderr")
    with open(Slow.file, "w") as stderr:
        monkeypatch.setattr(sys, "__stderr__", stderr)
        plan = plan_of(Slow)
        backend = Inline(plan, 0.05)
        transitions = [backend.collect(iteration) for iteration in iterations(plan, 2)]
        backend.close()
    assert len(transitions) == 2
    text = Slow.file.read_text()
    assert text.count("in step\n") >= 1
    assert "test_inline.py" in text


def test_no_stack_without_a_limit_or_without_stderr(tmp_path, monkeypatch):
    with open(tmp_path / "stderr", "w") as stderr:
        monkeypatch.setattr(sys, "__stderr__", stderr)
        inline(plan_of(Drift), 2)
        monkeypatch.setattr(sys, "__stderr__", None)
        plan = plan_of(Drift)
        backend = Inline(plan, 0.001)
        backend.collect(*iterations(plan, 1))
        backend.close()
    assert not (tmp_path / "stderr").read_text()

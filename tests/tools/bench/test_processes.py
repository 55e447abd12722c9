from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tools.bench.processes import BenchFault, WarmProgram, run_timed

ECHO = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    print(json.dumps({"heard": json.loads(line)}), flush=True)
"""


def test_a_command_is_timed_from_start_to_end() -> None:
    run = run_timed([sys.executable, "-c", "import time; time.sleep(0.3); print(1)"], timeout_s=30)
    assert 0.3 <= run.seconds < 30
    assert run.stdout == "1\n"


def test_every_competitor_keeps_its_compiled_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    command = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    assert run_timed(command, timeout_s=30).stdout == "False\n"


def test_a_command_that_fails_is_no_measurement() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no torch here')"]
    with pytest.raises(BenchFault, match=r"(?s)failed with status 1:.*no torch here"):
        run_timed(command, timeout_s=30)


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    with pytest.raises(BenchFault, match="did not end within 2 s"):
        run_timed([sys.executable, "-c", code], timeout_s=2, folder=tmp_path)
    pid = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "\nState:\tZ" not in status.read_text()


def test_a_warm_program_answers_as_often_as_it_is_asked() -> None:
    with WarmProgram([sys.executable, "-c", ECHO], timeout_s=30) as program:
        program.hear()
        assert program.ask(world=2) == {"heard": {"world": 2}}
        assert program.ask(world=4) == {"heard": {"world": 4}}
    assert program.process.returncode == 0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("""print('{"error": "spawn can\\\\u0027t be imported"}')""", "spawn can't be imported"),
        ("", "has ended"),
        ("import time; time.sleep(60)", "did not answer within 2 s"),
    ],
)
def test_a_warm_program_that_can_not_answer_says_why(code: str, reason: str) -> None:
    with (
        WarmProgram([sys.executable, "-c", code], timeout_s=2) as program,
        pytest.raises(BenchFault, match=reason),
    ):
        program.hear()
    assert program.process.returncode is not None

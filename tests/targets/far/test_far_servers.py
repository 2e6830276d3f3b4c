"""The servers that stand for boards, which behave as boards do."""

from __future__ import annotations

import platform
import re

import pytest

from tests.helpers.far_servers import HOSTS, SshServer
from tests.helpers.support import TIME_LIMIT_S, known

pytestmark = pytest.mark.process


def test_a_session_is_a_clean_pipe_with_an_exit_code(ssh_server: SshServer) -> None:
    """Every byte comes back, standard error apart; home and machine are not the user's."""
    data = bytes(range(256)) * 300
    done = ssh_server.run(HOSTS.good, "echo $HOME $(uname -m) >&2; cat; exit 7", data=data)
    assert (done.stdout, done.returncode) == (data, 7)
    expected = (
        ["/root", "armv7l"] if ssh_server.board else [str(ssh_server.home), platform.machine()]
    )
    assert done.stderr.decode().split() == expected


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (HOSTS.without_key, r"Permission denied \(publickey,password"),
        (HOSTS.unknown, "Host key verification failed"),
        (HOSTS.changed, "REMOTE HOST IDENTIFICATION HAS CHANGED"),
        (HOSTS.refused, "Connection refused"),
    ],
)
def test_a_client_that_cannot_connect_says_why(
    ssh_server: SshServer, host: str, words: str
) -> None:
    """Each of the server's other names has one defect."""
    done = ssh_server.run(host, "true")
    assert (done.returncode, done.stdout) == (255, b"")
    assert re.search(words, done.stderr.decode())


def test_a_connection_has_processes_of_the_server(ssh_server: SshServer) -> None:
    """The processes live as long as a session."""
    with ssh_server.start(HOSTS.good, "echo; cat") as session:
        known(session.stdout).readline()
        assert ssh_server.connections()
        known(session.stdin).close()
        assert session.wait(TIME_LIMIT_S) == 0

"""Lists what the sandbox promises, and tests that try it from within: each passes where its promise holds.

They are filled in by `str.format`: `folder`, one that this user may write; `secret`, a file that this user may read;
`parent`, the number of a process of this user; `memory`, the limit in MiB."""

PROMISES = {
    "no network": """
import socket
for kind in (socket.AF_INET, socket.AF_UNIX):
    try:
        socket.socket(kind)
    except OSError:
        continue
    raise AssertionError("a socket was made")
""",
    "no processes": """
import os
try:
    os.fork() or os._exit(0)
except OSError:
    pass
else:
    raise AssertionError("a process was started")
""",
    "no writing of files": """
try:
    open({folder!r} + "/written", "w")
except OSError:
    pass
else:
    raise AssertionError("a file was written")
""",
    "no reading of files": """
try:
    open({secret!r})
except OSError:
    pass
else:
    raise AssertionError("a file was read")
""",
    "no look into other processes": """
try:
    open("/proc/{parent}/environ")
except OSError:
    pass
else:
    raise AssertionError("another process's environment was read")
""",
    "no signals to others": """
import os
try:
    os.kill({parent}, 0)
except OSError:
    pass
else:
    raise AssertionError("a signal was sent")
""",
    "a limit of memory": """
try:
    bytearray({memory} * 2**20)
except MemoryError:
    pass
else:
    raise AssertionError("memory was had")
""",
    "an empty environment": "import os; assert not os.environ",
}

"""Errors that are for people: each names what is wrong, what is allowed and what to do."""


class ArgosyError(Exception):
    """Base of every error that is shown without a traceback; `exit_code` is the process's."""

    exit_code = 1


class InputError(ArgosyError):
    """The user's input is wrong: a config value, a file, a range. Trying again does not help."""

    exit_code = 2


class StepError(ArgosyError):
    """A step failed although its input was right: no space left, a process that died."""

    exit_code = 1


class Stopped(BaseException):
    """SIGTERM or SIGINT arrived; unwinds the step so that it can leave its directory clean."""

    exit_code = 143

    def __init__(self, message: str = "stopped", exit_code: int = 143) -> None:
        super().__init__(message)
        self.exit_code = exit_code

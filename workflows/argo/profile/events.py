"""Events that submit a workflow, through Argo Events: where each comes from, and the workflow's parameters."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from argosy.core.config.schema import Config

Key = Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", title="SECRET/KEY", examples=["hooks/token"])]
NAME = "{name}"  # in the value of a parameter: what the event is about
KINDS = ("webhook", "push", "bucket", "folder", "checkpoint", "alias")
SAFE = r"[A-Za-z0-9._/@=+-]+"  # names that may stand in a parameter


class Webhook(Config):
    """A POST of JSON to `/<event>` of argosy-hooks-eventsource-svc, port 12000. Requests of one `id` are one event."""

    secret: Key
    """SECRET/KEY with the token that a request gives as `Authorization: Bearer TOKEN`."""
    accepts: tuple[str, ...] = ()
    """Parameters that the request may set, by the names of the form."""


class Push(Config):
    """A push to a branch on GitHub, whose webhook calls `/<event>` of that service, port 12001. {name}: the commit."""

    repository: str = Field(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$", title="OWNER/NAME", examples=["acme/data"])
    """OWNER/NAME"""
    secret: Key
    """SECRET/KEY with the webhook's secret, which signs each call."""
    branch: str = "main"


class Bucket(Config):
    """A new object in a bucket whose server sends notifications, as MinIO does. {name}: its key."""

    endpoint: str = Field(pattern=r"^[^/:]+(:\d+)?$", title="HOST:PORT", examples=["minio:9000"])
    """HOST:PORT"""
    bucket: str
    secret: str = Field(pattern=r"^[a-z0-9.-]+$", examples=["minio-keys"])
    """Secret with `accesskey` and `secretkey`."""
    prefix: str = ""
    suffix: str = ""
    insecure: bool = False
    """Without TLS."""


class Folder(Config):
    """A new file in a folder of the store's volume; move it there whole, as it is read at once. {name}: its name."""

    path: str = Field(pattern=r"^/", title="an absolute path", examples=["/store/incoming"])
    """The folder as pods see it; it must be there."""
    files: str = r"[^.].*"
    """Regular expression of the names."""

    def check_fields(self) -> None:
        try:
            re.compile(self.files)
        except re.error as error:
            raise ValueError(f"files is {self.files!r}, which is no regular expression: {error}") from None


class Event(Config):
    """One of `webhook`, `push`, `bucket`, `folder`, `checkpoint`, `alias`, and the workflow that it submits."""

    webhook: Webhook | None = None
    push: Push | None = None
    bucket: Bucket | None = None
    folder: Folder | None = None
    checkpoint: tuple[str, ...] = ()
    """Stages of which a new checkpoint is an event. {name}: its directory in the store."""
    alias: str = Field("", pattern=r"^[A-Za-z0-9._-]*$", examples=["reference"])
    """Alias of the registry; that `promote` moves it is an event. {name}: MODEL@ALIAS, CHECKPOINT and time."""
    template: Literal["lifecycle", "evaluate", "sweep"] = "lifecycle"
    parameters: Mapping[str, str] = Field(default_factory=dict)
    """Parameters of the workflow, by the names of the form; others have the form's defaults."""

    @property
    def kind(self) -> str:
        """The one of KINDS that it is."""
        return next(name for name in KINDS if getattr(self, name))

    @property
    def secrets(self) -> list[str]:
        """The Secrets that its source reads."""
        given = (each.secret for each in (self.webhook, self.push, self.bucket) if each)
        return [each.partition("/")[0] for each in given]

    def check_fields(self) -> None:
        kinds = [name for name in KINDS if getattr(self, name)]
        if len(kinds) != 1:
            raise ValueError(f"an event comes from one of webhook, push, bucket, folder, checkpoint and alias; given: "
                             f"{', '.join(kinds) or 'none'}")
        for name, value in self.parameters.items():
            if wrong := [each for each in re.findall(r"\{\w*\}", value) if each != NAME]:
                raise ValueError(f"parameters.{name} has {wrong[0]}, allowed: {NAME}")
        used = [name for name, value in self.parameters.items() if NAME in value]
        if used and self.webhook:
            raise ValueError(f"parameters.{used[0]} has {NAME}, and a webhook has none: let the request set the "
                             f"parameter (webhook.accepts: [{used[0]}])")

"""The tracking server: its address, first opening, errors, and the names that it takes. Imports mlflow on first use."""

import hashlib
import logging
import os
import posixpath
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from argosy.core.errors import InputError
from argosy.core.store.files import explain, write_atomic
from argosy.core.store.step_files import STORE_URI
from argosy.core.tracking.ship import Refused, Unavailable, locked

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel
    from mlflow.store.entities import PagedList
    from mlflow.tracking import MlflowClient

T = TypeVar("T")

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")  # that MLflow opens itself, without a server
LOCK = ".mlflow.lock"
STORE_ID = ".argosy-store"  # file of a store
STORE = "argosy.store"  # tag of models and curves: the id of their store
CHECKPOINT = "argosy.checkpoint"  # tag of a LoggedModel: `<node's digest>/<export>`
TIMEOUT_S = 10
REFUSALS = ("FEATURE_DISABLED", "INVALID_PARAMETER_VALUE", "INVALID_STATE", "NOT_FOUND",
            "PERMISSION_DENIED", "RESOURCE_ALREADY_EXISTS", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_LIMIT_EXCEEDED")
LONGEST = 250  # characters of a metric's name
_PASSWORD = re.compile(r"//[^/@\s]*@")
_NOT_ALLOWED = re.compile(r"[^/\w.\- :]")  # mlflow.utils.validation; \w has the letters of every script
NOT_IN_MODEL = re.compile(r"[/:.%\"']")


def default_uri(store: Path) -> str:
    """The SQLite database of a store."""
    return "sqlite:///" + quote(str(store.absolute() / DATABASE))


def tracking_uri(store: Path, configured: str = "") -> str:
    """The address to send to: the configured one, else MLFLOW_TRACKING_URI, else the store's own database.

    A relative path of SQLite is of this process' folder, as MLflow has it, and is absolute in what is returned, so that
    processes which run elsewhere open the same file.

    Raises InputError: it is a folder: MLflow no longer takes one, and would keep twice what is sent twice."""
    uri = configured or os.environ.get("MLFLOW_TRACKING_URI", "") or default_uri(store)
    if uri.startswith("file:") or "://" not in uri:
        name = "--tracking-uri" if configured else "MLFLOW_TRACKING_URI"
        raise InputError(f"{name} is {uri!r}, a folder, which MLflow no longer writes; allowed: a server "
                         "(https://HOST:PORT) or a database (sqlite:////PATH/mlflow.db); unset, it is the store's own")
    file = sqlite_file(uri)
    if file is None or uri.startswith(f"{uri.partition(':')[0]}:////"):
        return uri
    _, mark, options = uri.partition("?")
    return f"{uri.partition(':')[0]}:///{quote(str(file))}{mark}{options}"


def sqlite_file(uri: str) -> Path | None:
    """The file of a SQLite address, absolute; None for another address, and for a database in memory."""
    scheme, _, rest = uri.partition(":///")
    name = unquote(rest.partition("?")[0])
    return Path(name).absolute() if scheme.startswith("sqlite") and name not in ("", ":memory:") else None


class Server:
    """A tracking server or database, opened when it is first needed.

    Args:
        uri: an MLflow tracking URI.
        store: the store's directory; it holds the lock and the default database."""

    def __init__(self, uri: str, store: Path) -> None:
        self.uri = uri
        self.store = store.absolute()
        self._store_uri = os.environ.get(STORE_URI, "").rstrip("/")
        self._client: MlflowClient | None = None
        self._store_id = hashlib.sha256(self._store_uri.encode()).hexdigest()[:12] if self._store_uri else ""

    @property
    def others_create(self) -> bool:
        """Whether `creating` keeps nobody else off: other pods have mirrors of their own, with locks of their own."""
        return bool(self._store_uri)

    def place(self, path: Path) -> str:
        """The address of a file of the store for readers in MLflow: in the bucket, where the store is one."""
        path = Path(os.path.abspath(path))
        if self._store_uri and path.is_relative_to(self.store):
            return f"{self._store_uri}/{path.relative_to(self.store).as_posix()}"
        return str(path)

    def store_of(self, path: Path) -> str:
        """The id of the store that a checkpoint lies in; "" where it lies in none.

        It tells stores on one server apart: what two of them computed of one config are two models."""
        self.client  # noqa: B018  opening makes the store's own id
        path = Path(os.path.abspath(path))
        if path.is_relative_to(self.store):
            return self._store_id
        return next((found for parent in path.parents[:4] if (found := read_id(parent))), "")

    @property
    def artifact_location(self) -> str | None:
        """The place of a new experiment's artifacts: beside a SQLite file; in the store of another database, for which
        MLflow would take the folder that a process happens to run in. A server decides that itself."""
        if re.split("[+:]", self.uri)[0] not in DATABASES:
            return None
        file = sqlite_file(self.uri)
        return ((file.parent if file else self.store) / ARTIFACTS).as_uri()

    @property
    def client(self) -> "MlflowClient":
        """The client. Raises Unavailable: the URI is wrong or its database cannot be opened."""
        if self._client is None:
            with self.errors():
                self._client = self._open()
        return self._client

    def logged_models(self, experiments: Sequence[str], wanted: str = "") -> "Iterator[LoggedModel]":
        """LoggedModels of some experiments that the filter `wanted` holds for, oldest first."""
        order = [{"field_name": name, "ascending": True} for name in ("creation_timestamp", "model_id")]
        if experiments:
            yield from paged(lambda token: self.client.search_logged_models(
                list(experiments), wanted or None, order_by=order, page_token=token))

    def model_of(self, line: str, checkpoint: str) -> "LoggedModel | None":
        """The LoggedModel of a checkpoint of a model line: this store's, else the oldest."""
        found = self.models_of(line, checkpoint)
        return min(found, key=lambda model: model.tags.get(STORE) != self._store_id, default=None)

    def models_of(self, line: str, checkpoint: str, store: str = "") -> "list[LoggedModel]":
        """All of them, oldest first: those of one store alone, unless it is ""."""
        experiment = self.client.get_experiment_by_name(line)
        wanted = f"tags.`{CHECKPOINT}` = {quoted(checkpoint)}"
        found = self.logged_models([experiment.experiment_id], wanted) if experiment else ()
        return [model for model in found if not store or model.tags.get(STORE, store) == store]

    @contextmanager
    def creating(self) -> Iterator[None]:
        """Look and create as one: no other process of this directory does at the same time. Not to be nested."""
        self.client  # noqa: B018  opening takes the same lock
        with locked(self.store / LOCK, wait=True):
            yield

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn every failure into Unavailable with a line that says why; Refused where the server works and says no."""
        try:
            yield
        except Unavailable:
            raise
        except Exception as error:  # requests, urllib3, sqlalchemy and mlflow each raise their own
            kind = Refused if getattr(error, "error_code", "") in REFUSALS else Unavailable
            known = explain(error, self.store) if self.uri.startswith("sqlite:") else None
            raise kind(one_line(known or error)) from error

    def _open(self) -> "MlflowClient":
        # One short try: trying again is the shipper's work, and it can say why. Not to be overruled by the caller's
        # environment, whose defaults wait for minutes.
        os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
        os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(TIMEOUT_S)
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        os.environ["MLFLOW_ENABLE_ASYNC_LOGGING"] = "false"
        os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # two lines for each run that ends
        import mlflow.store.db.utils
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # errors are said in a line
        mlflow.store.db.utils.MAX_RETRY_COUNT = 1  # of opening a database; ten would wait for two minutes
        with locked(self.store / LOCK, wait=True):
            self._store_id = self._store_id or read_id(self.store)
            if not self._store_id:
                made = uuid.uuid4().hex[:12]
                with suppress(OSError):  # of a store that cannot be written
                    write_atomic(self.store / STORE_ID, made + "\n")
                    self._store_id = made
        if (file := sqlite_file(self.uri)) and not file.exists():
            with locked(file.parent / LOCK, wait=True):  # stores may share it
                if not file.exists():
                    create_database(file)
        return MlflowClient(tracking_uri=self.uri)


def paged(search: "Callable[[str | None], PagedList[T]]") -> Iterator[T]:
    """Yield what a search of MLflow finds, page after page; `search`: of the page's token, None for the first."""
    token: str | None = None
    while token != "":
        page = search(token)
        yield from page
        token = page.token or ""


def read_id(store: Path) -> str:
    """The id of a store; "" where it has none."""
    try:
        return (store / STORE_ID).read_text().strip()
    except OSError:
        return ""


def create_database(path: Path) -> None:
    """Make MLflow's SQLite database, all of it or nothing. Its migrations flush to the disk some hundred times, which
    takes seconds; here they run without on a temporary file that gets its name when it is complete."""
    import sqlalchemy
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    def unflushed(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".mlflow-new-") as folder:
        new = Path(folder) / path.name
        sqlalchemy.event.listen(sqlalchemy.Engine, "connect", unflushed)
        try:
            store = SqlAlchemyStore("sqlite:///" + quote(str(new)), str(path.parent / ARTIFACTS))  # type: ignore[no-untyped-call]
            store.engine.dispose()
        finally:
            sqlalchemy.event.remove(sqlalchemy.Engine, "connect", unflushed)
        with open(new, "rb") as file:
            os.fsync(file.fileno())
        new.replace(path)


def one_line(error: BaseException) -> str:
    """The first line of an error, short and without a password."""
    return without_password((str(error) or type(error).__name__).strip().splitlines()[0])[:300]


def without_password(text: str) -> str:
    """`text` without the user and password of the URLs in it."""
    return _PASSWORD.sub("//***@", text)


def metric_name(name: str) -> str:
    """`name` as a metric, param or tag key: itself where it is allowed.

    Otherwise what is not allowed becomes `_`, and a hash of the name follows, so that two names stay two."""
    clean = posixpath.normpath(_NOT_ALLOWED.sub("_", name)).lstrip("/")
    while clean == ".." or clean.startswith("../"):
        clean = clean[3:]
    if clean == name and len(name) <= LONGEST and name not in ("", "."):
        return name
    suffix = "-" + hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return clean.strip(".")[: LONGEST - len(suffix)] + suffix


def quoted(value: str) -> str:
    """`value` in a filter of MLflow's search, which has no way to escape a quote."""
    return f'"{value}"' if "'" in value else f"'{value}'"

"""Checks of rights: you may submit, the executor may report, and steps may do nothing."""

from collections.abc import Iterator

from workflows.argo.client.transport import ApiError, Json
from workflows.argo.doctor.check import Check, Cluster, Found

API = "/apis/authorization.k8s.io/v1"
ARGO = "argoproj.io"
Wanted = tuple[str, str, str]  # verb, API group, resource
YOURS: tuple[Wanted, ...] = (
    ("create", ARGO, "workflows"), ("get", ARGO, "workflows"), ("list", ARGO, "workflows"),
    ("patch", ARGO, "workflows"), ("get", ARGO, "workflowtemplates"), ("list", "", "pods"), ("get", "", "pods/log"),
)  # fmt: skip
EXECUTORS: tuple[Wanted, ...] = (("create", ARGO, "workflowtaskresults"), ("patch", ARGO, "workflowtaskresults"))
NEVER_STEPS: tuple[Wanted, ...] = (("list", "", "secrets"), ("get", "", "secrets"), ("create", "", "pods"),
                                   ("create", ARGO, "workflows"))  # fmt: skip
_KINDS = {"selfsubjectaccessreviews": "SelfSubjectAccessReview", "subjectaccessreviews": "SubjectAccessReview"}


def yours(cluster: Cluster) -> Iterator[Found]:
    """Check the rights that submit, watch, logs and stop need of whoever types them."""
    lacking = [_text(each) for each in YOURS if not _may(cluster, "selfsubjectaccessreviews", each)]
    yield (Found("FAIL", f"you may not {', '.join(lacking)}",
                 f"have a Role in {cluster.namespace} bound to you that allows it")
           if lacking else Found("ok", "you may submit, watch, stop and read logs"))  # fmt: skip


def executor(cluster: Cluster) -> Iterator[Found]:
    """Check the account under which Argo's executor reports the outputs of pods."""
    who = f"service account {(name := cluster.profile.executor_account)}"
    lacking = [_text(each) for each in EXECUTORS if not _may(cluster, "subjectaccessreviews", each, name)]
    yield (Found("FAIL", f"{who} may not {', '.join(lacking)}", cluster.install) if lacking
           else Found("ok", f"{who} may report results"))


def steps(cluster: Cluster) -> Iterator[Found]:
    """Check that steps' pods may do nothing: they run configs and data from elsewhere."""
    who = f"service account {(name := cluster.profile.service_account)} of the steps"
    too_much = [_text(each) for each in NEVER_STEPS if _may(cluster, "subjectaccessreviews", each, name)]
    yield (Found("warn", f"{who} may {', '.join(too_much)}", "take its RoleBindings away: steps need no rights")
           if too_much else Found("ok", f"{who} may neither read secrets nor start pods"))


def _may(cluster: Cluster, kind: str, wanted: Wanted, account: str = "") -> bool:
    verb, group, resource = wanted
    resource, _, subresource = resource.partition("/")
    attributes = {"namespace": cluster.namespace, "verb": verb, "group": group, "resource": resource}
    spec: Json = {"resourceAttributes": attributes | ({"subresource": subresource} if subresource else {})}
    if account:
        spec |= {"user": f"system:serviceaccount:{cluster.namespace}:{account}",
                 "groups": ["system:serviceaccounts", f"system:serviceaccounts:{cluster.namespace}",
                            "system:authenticated"]}  # fmt: skip
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": _KINDS[kind], "spec": spec}
    found = cluster.api.ask("POST", f"{API}/{kind}", review)
    if "status" not in found:
        raise ApiError(403, "the API server does not say who may do what")
    return bool(found["status"].get("allowed"))


def _text(wanted: Wanted) -> str:
    return f"{wanted[0]} {wanted[2]}"


CHECKS = (Check("rights", yours, 40), Check("executor", executor, 41), Check("steps", steps, 42))

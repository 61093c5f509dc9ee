"""Is the profile that a submission names what the cluster holds: in its WorkflowTemplate, and in its ConfigMap?"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from argosy.errors import InputError
from workflows.argo.client_http import Json
from workflows.argo.profile import Profile
from workflows.argo.profile_load import is_shipped

TEMPLATE_STORE = "ARGOSY_TEMPLATE_STORE"  # the plan's pod is told for which store its template was made


def check_store(profile: Profile, there: str) -> None:
    """Raises InputError where the pods' volumes, which are of the installed template, are not the profile's store."""
    if there != profile.storage.place:
        raise InputError(
            f"profile is {profile.name!r}, whose store is {profile.storage.place}, but the WorkflowTemplate was made "
            f"for {there}: name a profile of that store, or install the manifests of {profile.name!r}"
        )


def profile_notes(template: Json, profile: Profile, held: str | None, install: str) -> Iterator[str]:
    """What to know before `template` is submitted with `profile`.

    Args:
        held: YAML of the profile of that name in the namespace; "" where there is none, None where it is not known.
        install: the commands that install the profile.

    Raises:
        InputError: the plan's pod would refuse the profile, or not find it.
    """
    check_store(profile, _store_of(template) or profile.storage.place)
    if held == "" and not is_shipped(profile.name):
        raise InputError(f"profile {profile.name!r} is not in the namespace, and pods would not find it: {install}")
    if held:
        ours, theirs = _plain(profile), yaml.safe_load(held) or {}
        names = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
        if names:
            yield (f"the profile {profile.name} that the namespace holds differs in {', '.join(names)}, and pods read "
                   f"that one; to install this one: {install}")
    own = default_of(template, "profile")
    name = template["metadata"]["name"]
    if own and own != profile.name:
        yield (f"the WorkflowTemplate {name} was made from the profile {own}: images, resources, devices and places "
               f"are those of {profile.name}; accounts, volumes, attempts and deadlines stay those of {own}; to "
               f"change that: {install}")
        if held is None and not is_shipped(profile.name):
            yield f"whether the namespace has the profile {profile.name}, which pods read there, is not known"
    elif places := _places(template, profile):
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield (f"the WorkflowTemplate {name} is not what this version makes of the profile {profile.name} ({places[0]}"
               f"{more}), and runs as it is; to install this version's: {install}")


def default_of(template: Json, name: str) -> str:
    """The default of a parameter."""
    parameters = (template["spec"].get("arguments") or {}).get("parameters") or []
    return next((str(each.get("value", "")) for each in parameters if each["name"] == name), "")


def _store_of(template: Json) -> str:
    containers = [each.get("container") or {} for each in template["spec"].get("templates") or []]
    told = [each for container in containers for each in container.get("env") or [] if each["name"] == TEMPLATE_STORE]
    return str(told[0].get("value", "")) if told else ""


def _plain(profile: Profile) -> Json:
    found: Json = profile.model_dump(mode="json", exclude_unset=True)
    return found


def _places(template: Json, profile: Profile) -> list[str]:
    """Where the template differs from ours; what the API server added does not count."""
    from workflows.argo.doctor.installed import differences
    from workflows.argo.manifests import manifests

    [ours] = manifests(profile)[template["metadata"]["name"]]
    return list(differences(ours["spec"], template["spec"], "spec"))

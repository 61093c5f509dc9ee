"""The parameters of the WorkflowTemplates: what the submit form of the Argo UI asks, and the CLI fills in."""

from __future__ import annotations

from dataclasses import dataclass, field

from workflows.argo.profile import Profile
from workflows.compose import DEFAULT_PRESET, preset_names


@dataclass(frozen=True)
class FormField:
    """A parameter: its name, default, what it means, and the values that are allowed (none: any)."""

    name: str
    value: str
    description: str
    enum: list[str] = field(default_factory=list)


def lifecycle_fields(profile: Profile, stages: list[str]) -> list[FormField]:
    """What `lifecycle` asks."""
    presets = list(profile.presets or preset_names())
    default = DEFAULT_PRESET if DEFAULT_PRESET in presets else presets[0]
    return [
        FormField("preset", default, "Config to start from", presets),
        FormField("config", "", "YAML on top of the preset, as in argosy.yaml"),
        FormField("overrides", "", "stage.field=value, one a line, on top of both: sft.learning_rate=1e-4"),
        FormField("from", "", "First stage to run; what it needs must be done. Empty: the first", ["", *stages]),
        FormField("to", "", "Last stage to run. Empty: the last", ["", *stages]),
        FormField("promote", "no", "After the comparison, let the registry's alias name the final checkpoint. ask: "
                  "when a person has approved", ["no", "ask", "yes"]),
        *common_fields(profile),
    ]


def evaluate_fields(profile: Profile) -> list[FormField]:
    """What `evaluate` asks."""
    return [
        FormField("checkpoints", "", "STAGE, STAGE/EXPORT or directories, one a line. Empty: all that are new"),
        FormField("suites", "", "Names with commas. Empty: those that the checkpoints' run was configured with"),
        FormField("reference", "", f"Alias or checkpoint to compare with. Empty: the alias {profile.nightly.alias}"),
        FormField("model", profile.nightly.model, "Registered model of the alias. Empty: the model line's name"),
        *common_fields(profile),
    ]


def common_fields(profile: Profile) -> list[FormField]:
    """What every template asks."""
    return [
        FormField("profile", profile.name, "Cluster profile: images, devices and places of the pods"),
        FormField("image-tag", profile.images.tag, "Tag of the images argosy-data and argosy-train"),
        FormField("priority", "", "PriorityClass of the pods. Empty: the cluster's default", ["", *profile.priorities]),
    ]

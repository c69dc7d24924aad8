"""The bodies of requests. Types and lengths are checked here. The recommender checks what depends on the catalog."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from thali_client.types import Limits

LIMITS = Limits()
Name = Annotated[str, Field(min_length=1, max_length=256)]
Names = Annotated[list[Name], Field(max_length=LIMITS.names)]
Id = Annotated[str, Field(min_length=36, max_length=36, json_schema_extra={"format": "uuid"})]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positions = Annotated[list[Annotated[int, Field(ge=0, lt=LIMITS.K)]], Field(max_length=LIMITS.K)]
Weights = dict[Name, Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]]
ONE, SEVERAL = "(one)", "(several)"


def _one_or_several(value: Any) -> str:
    return SEVERAL if isinstance(value, list) else ONE


class Body(BaseModel):
    """A body that accepts only the declared fields, and does not convert types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class RecommendBody(Body):
    """The user to recommend a list to, and options for the list."""

    user: Name = Field(description="The user's name. A new name creates a new user.", examples=["ana"])
    K: int | None = Field(
        None,
        ge=1,
        le=LIMITS.K,
        description="The most items in the list (default: the learner's K). If fewer items are left to choose from, "
        "the list has only those.",
    )
    candidates: Names | None = Field(None, description="Items to choose from (default: all items).")
    exclude: Names | None = Field(
        None, description="Items not to show, such as those already seen. Names that do not exist are ignored."
    )
    learner: Name | None = Field(
        None, description="The learner to use (default: the one that the user is assigned to)."
    )
    alpha: Number | None = Field(None, ge=0, description="α, the weight of exploration (default: the learner's α).")
    hide: Annotated[str, Field(max_length=200)] | None = Field(
        None,
        description="What not to show again: nothing, clicked, examined, examined:20 (for 20 lists), examined:7d (for "
        "7 days), fading:5, or several with commas between them (default: the rule of the service).",
        examples=["nothing"],
    )
    explain: bool = Field(False, description="Whether to explain each item by topic and in words.")


class FeedbackBody(Body):
    """The clicks on a list."""

    impression: Id = Field(description="The id of the impression, from the response of /v1/recommend.")
    clicked: Positions = Field(
        description="The clicked positions, counted from 0, or [] if nothing was clicked.", examples=[[2]]
    )


FeedbackBatch = Annotated[list[FeedbackBody], Field(max_length=LIMITS.batch)]
#: One or several. The discriminator decides first, so that errors refer to the kind of body that was sent.
FeedbackBodies = Annotated[
    Annotated[FeedbackBody, Tag(ONE)] | Annotated[FeedbackBatch, Tag(SEVERAL)], Discriminator(_one_or_several)
]


class ItemBody(Body):
    """An item's weights, or its topics."""

    weights: Weights | None = Field(
        None,
        description="For each topic, how attractive the item is to someone who likes the topic, from 0 to 1. Topics "
        "that are left out have weight 0.",
        examples=[{"comedy": 0.4}],
    )
    topics: Annotated[list[Name], Field(min_length=1, max_length=LIMITS.names)] | None = Field(
        None,
        description="The topics of the item, instead of weights. It gets the weights that such items usually have.",
    )


class ItemChangeBody(ItemBody):
    """An item to add, change or remove."""

    item: Name = Field(description="The item's name.", examples=["Ronin"])
    remove: bool = Field(False, description="Whether to remove the item. It then has no weights or topics.")

    @model_validator(mode="after")
    def _nothing_to_remove_with(self) -> Self:
        if self.remove and (self.weights is not None or self.topics is not None):
            raise ValueError("must have no weights or topics if remove is true")
        return self


class ItemsBody(Body):
    """Many changes of items. If one is not valid, none is made."""

    items: Annotated[list[ItemChangeBody], Field(min_length=1, max_length=LIMITS.items)] = Field(
        description="The items to add, change or remove, each at most once."
    )


class PriorBody(Body):
    """Which prior to learn."""

    learner: Name | None = Field(None, description="The learner (default: the only one that learns its prior).")


class CatalogBody(Body):
    """How to load the catalog file again."""

    discard_changes: bool = Field(
        False, description="Whether changes that were made to items through the API may be lost."
    )


Count = Annotated[int, Field(ge=1, le=1000)]
Steps = Annotated[list[Annotated[int, Field(ge=1, le=LIMITS.simulated_steps)]], Field(min_length=1, max_length=1000)]


class ChangeBody(Body):
    """A change of the simulated person's taste."""

    step: int = Field(
        ge=1,
        lt=LIMITS.simulated_steps,
        description="Number of lists that are shown before the change. It must increase from one change to the next.",
    )
    theta: Weights = Field(
        description="The new preferences, in the same form as theta of the simulation.", examples=[{"comedy": 0.9}]
    )


class SimulationBody(Body):
    """A simulated person, and the policies that recommend lists to this person."""

    policies: Annotated[list[Name], Field(min_length=1, max_length=8)] = Field(
        description="The policies to simulate. GET /v1/about lists their names.",
        examples=[["CascadeLSB", "CascadeLinUCB"]],
    )
    steps: int = Field(
        1000, ge=2, le=LIMITS.simulated_steps, description="Number of lists that each policy shows to the person."
    )
    K: int | None = Field(
        None,
        ge=1,
        le=LIMITS.K,
        description="Maximum number of items per list (default: the K of the service's first learner). If the catalog "
        "has fewer items, lists have only those.",
    )
    theta: Weights | None = Field(
        None,
        description="The person's preference for each topic. The sum must be at most 1 (default: drawn with the seed).",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Random seed. The same request returns the same result.")
    points: Annotated[Annotated[Count, Tag(ONE)] | Annotated[Steps, Tag(SEVERAL)], Discriminator(_one_or_several)] = (
        Field(
            100,
            description="The steps at which to return results: either their number, for evenly spaced steps, or an "
            "ascending list of steps. The last step is always included.",
        )
    )
    since: int = Field(
        0, ge=0, lt=LIMITS.simulated_steps, description="Return only points after this step. Must be less than steps."
    )
    trace: bool = Field(False, description="Whether to return the list and the estimated preferences at every point.")
    changes: list[ChangeBody] = Field(
        [], max_length=LIMITS.changes, description="Changes of the person's taste, in the order of their steps."
    )

"""The bodies of requests. Lengths and types are checked here; what depends on the catalog, by the recommender."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from thali_client.types import Limits

LIMITS = Limits()
Name = Annotated[str, Field(min_length=1, max_length=256)]
Names = Annotated[list[Name], Field(max_length=LIMITS.names)]
Id = Annotated[str, Field(min_length=36, max_length=36, json_schema_extra={"format": "uuid"})]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positions = Annotated[list[Annotated[int, Field(ge=0, lt=LIMITS.K)]], Field(max_length=LIMITS.K)]
Weights = dict[Name, Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]]
ONE, SEVERAL = "(one)", "(several)"


def _how_many(value: Any) -> str:
    return SEVERAL if isinstance(value, list) else ONE


class Body(BaseModel):
    """Accepts exactly the fields named, without converting types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class RecommendBody(Body):
    """The user to recommend a list to, and how."""

    user: Name = Field(examples=["ana"])
    K: int | None = Field(None, ge=1, le=LIMITS.K, description="Items in the list; the learner's K by default.")
    candidates: Names | None = Field(None, description="Items to choose from; all by default.")
    exclude: Names | None = Field(
        None, description="Items not to show, such as those already seen; unknown ones are ignored."
    )
    learner: Name | None = Field(
        None, description="The learner to use; by default the one that the user is assigned to."
    )
    alpha: Number | None = Field(None, ge=0, description="α, the weight of exploration; the learner's by default.")


class FeedbackBody(Body):
    """What was clicked on a list."""

    impression: Id
    clicked: Positions = Field(description="Positions from 0; [] for none.", examples=[[2]])


FeedbackBatch = Annotated[list[FeedbackBody], Field(max_length=LIMITS.batch)]
#: One or several. Which of the two is decided first, so that an error is about what was sent.
FeedbackBodies = Annotated[
    Annotated[FeedbackBody, Tag(ONE)] | Annotated[FeedbackBatch, Tag(SEVERAL)], Discriminator(_how_many)
]


class ItemBody(Body):
    """An item's weights."""

    weights: Weights = Field(
        description="Attractiveness by topic, from 0 to 1; topics not named are 0.", examples=[{"comedy": 0.4}]
    )


Count = Annotated[int, Field(ge=1, le=1000)]
Steps = Annotated[list[Annotated[int, Field(ge=1, le=LIMITS.simulated_steps)]], Field(min_length=1, max_length=1000)]


class ChangeBody(Body):
    """A change of the simulated person's taste."""

    step: int = Field(
        ge=1,
        lt=LIMITS.simulated_steps,
        description="Number of lists shown before the change; ascending from change to change.",
    )
    theta: Weights = Field(
        description="The new preferences, in the same form as theta of the simulation.", examples=[{"comedy": 0.9}]
    )


class SimulationBody(Body):
    """A simulated person, and the policies that recommend lists to them."""

    policies: Annotated[list[Name], Field(min_length=1, max_length=8)] = Field(
        examples=[["CascadeLSB", "CascadeLinUCB"]]
    )
    steps: int = Field(1000, ge=2, le=LIMITS.simulated_steps, description="Lists shown to the person by each policy.")
    K: int | None = Field(None, ge=1, le=LIMITS.K)
    theta: Weights | None = Field(
        None, description="The person's preferences by topic, summing to at most 1; drawn from the seed by default."
    )
    seed: int = Field(0, ge=0, lt=2**32)
    points: Annotated[Annotated[Count, Tag(ONE)] | Annotated[Steps, Tag(SEVERAL)], Discriminator(_how_many)] = Field(
        100,
        description="Number of evenly spaced points per curve, or ascending steps; the last step is always included.",
    )
    since: int = Field(
        0, ge=0, lt=LIMITS.simulated_steps, description="Return only points after this step; must be below steps."
    )
    trace: bool = Field(False, description="Whether to return the list and the estimate at every point.")
    changes: list[ChangeBody] = Field(
        [], max_length=LIMITS.changes, description="Changes of taste, each with the step at which it happens."
    )

"""The Dagster component of tables that are declared in YAML."""

from typing import Any

import dagster as dg
from pydantic import ConfigDict, RootModel

from incload_assets.assets.wrapped import is_wrapped
from incload_assets.component.nodes import check_repeated_keys, node_of
from incload_assets.component.scaffold import TableScaffolder, example_attributes
from incload_assets.component.schema import attributes_schema
from incload_assets.component.tables import assets_in
from incload_assets.platform.errors import DeclarationError


class TableAttributes(RootModel[dict[Any, Any]]):
    """The content of ``attributes`` in a YAML file, checked when its tables are made, where lines are known."""

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        """The schema by which ``dg check yaml`` and editors know the keys."""
        return attributes_schema(example_attributes("orders"))


@dg.scaffold_with(TableScaffolder)
class IncrementalTable(dg.Component, dg.Resolvable, dg.Model):
    """Tables that load incrementally, each partition by itself, with checks, a sensor and a job.

    The attributes are the arguments of ``incload_assets.assets.incremental_asset``, and ``function``, the full name of
    a Python function. For many tables, ``tables`` has what each has of its own, and ``defaults`` what they have in
    common.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    assets: list[dg.AssetsDefinition] = []  # noqa: RUF012 - pydantic copies it

    @classmethod
    def model(cls) -> type[TableAttributes]:
        """The model of ``attributes``."""
        return TableAttributes

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """The description that Dagster shows of the component."""
        return dg.ComponentTypeSpec(produces=["asset"])

    @classmethod
    def resolve_from_model(cls, context: dg.ResolutionContext, model: Any) -> "IncrementalTable":
        """The component of a file's tables; a DeclarationError names file, line, key and what is allowed."""
        positions = context.source_position_tree
        file = positions.position.filename if positions else ""
        if positions and "attributes" in positions.children:
            positions = positions.children["attributes"]
        check_repeated_keys(file)
        return cls(assets=list(assets_in(node_of(model.root, positions), context, file or __name__)))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The assets alone: the project's ``definitions.py`` makes checks, sensors and jobs for all tables once."""
        if not is_wrapped():
            raise DeclarationError(
                f"{context.path}: its tables are loaded without their checks, sensors and jobs",
                rule="a project's definitions.py makes what all its tables share, once",
                remedy="write `defs = project_definitions(__file__)` there, with "
                "`from incload_assets.code_location import project_definitions`",
            )
        if not self.assets:
            raise DeclarationError(
                f"{context.path}: declares no table",
                rule="attributes are a table's, or defaults and tables",
                remedy="write attributes: {name: orders, …}, or remove the file",
            )
        return dg.Definitions(assets=self.assets)

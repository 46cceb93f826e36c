"""An address that may hold a password, which nobody is shown.

Whatever prints it (settings, errors, logs, JSON) prints it masked; the real text is had by `reveal` alone.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class SecretUrl:
    """Its kinds are made from the text that a person wrote. Equal when two mean the same, password included."""

    __slots__ = ("_masked", "_real")
    MUST_BE: ClassVar[str]  # said of a value that is no text

    def __init__(self, real: str, masked: str) -> None:
        self._real = real
        self._masked = masked

    def reveal(self) -> str:
        """The address with its password: for the connection, and for nothing that is printed or stored."""
        return self._real

    def __str__(self) -> str:
        return self._masked

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._masked!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other._real == self._real

    def __hash__(self) -> int:
        return hash(self._real)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        )

    @classmethod
    def _validate(cls, value: Any) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise ValueError(f"must be {cls.MUST_BE}")
        return cls(value)  # type: ignore[call-arg]  # a kind is made from text alone

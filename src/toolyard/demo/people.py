"""Who has an account at the demo provider."""

from msgspec import Struct


class Person(Struct, frozen=True):
    id: str
    name: str
    email: str
    unread: tuple[str, ...]
    """The subjects of their mail."""


PEOPLE = {
    person.id: person
    for person in (
        Person("ada", "Ada", "ada@demo.example", ("The analytical engine", "Tea on Thursday?")),
        Person("bob", "Bob", "bob@demo.example", ("Your parcel is on its way",)),
    )
}

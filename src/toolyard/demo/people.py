"""The people who have an account at the demo provider. They are made up, and have no passwords."""

from msgspec import Struct


class DemoPerson(Struct, frozen=True):
    """A person with an account, and a mailbox, at the demo provider."""

    id: str
    name: str
    email: str
    unread: tuple[str, ...]
    """The subjects of their unread mail."""


PEOPLE = {
    person.id: person
    for person in (
        DemoPerson("ada", "Ada", "ada@demo.example", ("The analytical engine", "Tea on Thursday?")),
        DemoPerson("bob", "Bob", "bob@demo.example", ("Your parcel is on its way",)),
    )
}

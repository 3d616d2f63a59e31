"""The documentation's example of a source of one's own."""

from collections.abc import Sequence

from tests.servers.http_api import TOKEN, running_http_api
from tests.servers.switch import switched
from tests.sources.case import Case, Content, Place, Row
from tests.support.http_api import HttpApi


class PagedApi(Case):
    """A server of its own, by way of a switch."""

    name = "http api"
    named = "the shop's API /"
    secret = TOKEN
    can_hang = True
    requests_for_300_windows = 2

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.api = place.closing.enter_context(running_http_api())
        self.switch = place.closing.enter_context(switched(self.api.port))
        place.patch.setenv("INCLOAD_LANDING", str(place.folder / "landing"))
        place.patch.setenv("SHOP_API_URL", f"http://127.0.0.1:{self.switch.port}")
        place.patch.setenv("SHOP_API_TOKEN", TOKEN)

    def source(self) -> HttpApi:
        return HttpApi("/changes")

    def fill(self, content: Content) -> None:
        self.api.content = dict(content)

    def rewrite(self, window: str, rows: Sequence[Row]) -> None:
        self.api.content[window] = rows

    def fail(self) -> None:
        self.switch.down()

    def fail_amid_reading(self) -> None:
        self.switch.break_off(after=200)

    def hang(self) -> None:
        self.switch.hang()

    def recover(self) -> None:
        self.switch.up()

    def refuse(self) -> None:
        self.place.patch.setenv("SHOP_API_TOKEN", f"wrong-{TOKEN}")

    def requests(self) -> int:
        return self.switch.requests

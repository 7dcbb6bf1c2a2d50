"""The window in which Super Mario Bros is shown, without a screen: SDL's dummy driver."""

import numpy as np
import pytest

from tests.envs.mario.consoles import fake_mario

pygame = pytest.importorskip("pygame")
pytest.importorskip("cv2")

from spinup_tf2.envs.mario.env import Window  # noqa: E402


@pytest.fixture(autouse=True)
def no_screen(monkeypatch):
    pygame.quit()  # where another test has left a display open, its driver is the one that is used
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    yield
    pygame.quit()


@pytest.fixture
def shown(monkeypatch):
    """The pictures that a window has been given."""
    pictures = []
    show = Window.show
    monkeypatch.setattr(
        Window, "show", lambda self, picture: pictures.append(picture) or show(self, picture)
    )
    return pictures


def test_pictures_are_shown_enlarged():
    picture = np.zeros((2, 4, 3), np.uint8)
    picture[0, 3] = [10, 20, 30]  # the right upper corner
    one = Window(height=2, width=4, fps=60)
    one.show(picture)
    screen = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
    np.testing.assert_array_equal(screen, picture.repeat(3, axis=0).repeat(3, axis=1))
    assert not pygame.mixer.get_init()  # sound is left alone
    one.close()
    assert not pygame.display.get_init()


def test_closing_the_window_is_an_interrupt():
    one = Window(2, 4, 60)
    one.show(np.zeros((2, 4, 3), np.uint8))
    pygame.event.post(pygame.event.Event(pygame.MOUSEMOTION))
    one.show(np.zeros((2, 4, 3), np.uint8))
    assert not pygame.event.peek(pygame.MOUSEMOTION)  # they would pile up
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    with pytest.raises(KeyboardInterrupt, match="the window was closed"):
        one.show(np.zeros((2, 4, 3), np.uint8))


def test_every_frame_is_shown(shown):
    """Also those that the agent skips; the pictures are those of the mode rgb_array."""
    from spinup_tf2.envs.wrappers import MaxAndSkip

    def play(render_mode):
        env = MaxAndSkip(fake_mario(render_mode=render_mode), 4)
        env.reset(seed=0)
        yield env.render()
        for _ in range(3):
            env.step(1)
            yield env.render()
        env.close()

    [*_] = play("human")
    assert len(shown) == (1 + 3 * 4) + 4  # and those of our own calls of `render`
    seen_by_agent = [0, 5, 10, 15]  # after 4 frames each, and another time by `render`
    for i, picture in zip(seen_by_agent, play("rgb_array"), strict=True):
        np.testing.assert_array_equal(shown[i], picture)
    assert len({picture.tobytes() for picture in shown}) == 1 + 3 * 4

"""A window that shows the game in real time."""

import numpy as np

from spinup_tf2.errors import UserError

ZOOM = 3


class Window:
    """A pygame window for frames of `height` x `width` pixels, at `fps` frames per second.

    Sound is not initialized. Closing the window has the same effect as Ctrl-C.
    """

    def __init__(self, height: int, width: int, fps: int):
        try:
            import pygame
        except ImportError as error:
            raise UserError(
                'A window needs pygame; install it with: pip install "spinup_tf2[video]".'
            ) from error
        self._pygame, self._fps = pygame, fps
        pygame.display.init()  # unlike pygame.init, this does not initialize sound
        pygame.display.set_caption("Super Mario Bros")
        self._screen = pygame.display.set_mode((ZOOM * width, ZOOM * height))
        self._clock = pygame.time.Clock()

    def show(self, picture: np.ndarray) -> None:
        """Show a frame, uint8 `[height, width, 3]`, and wait until the next one is due.

        Raises:
            KeyboardInterrupt: The window has been closed.
        """
        # Removes all events; otherwise they would fill the queue, and further ones would be lost.
        if any(event.type == self._pygame.QUIT for event in self._pygame.event.get()):
            raise KeyboardInterrupt("the window was closed")
        surface = self._pygame.surfarray.make_surface(picture.swapaxes(0, 1))  # x comes first there
        self._pygame.transform.scale(surface, self._screen.get_size(), self._screen)
        self._pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        self._pygame.display.quit()

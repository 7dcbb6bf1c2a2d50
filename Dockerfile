# spinup_tf2 on a processor, with MPI and videos:
#
#     docker build -t spinup_tf2 .
#     docker run --rm -v "$PWD/data:/home/user/data" spinup_tf2
#
# Super Mario Bros, played by the agent in data, which writes a video:
#
#     docker build -t spinup_mario --target mario .
#     docker run --rm -v "$PWD/videos:/home/user/videos" spinup_mario
FROM python:3.11-slim AS package

# Everything compiled comes in wheels, MPICH too. pygame draws without a display.
ENV PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    SDL_VIDEODRIVER=dummy \
    SPINUP_TF2_DATA_DIR=/home/user/data

WORKDIR /opt/spinup_tf2
COPY setup.py pyproject.toml README.md LICENSE ./
COPY spinup_tf2 spinup_tf2
RUN python -m pip install ".[mpi,video]"

RUN useradd --create-home user && mkdir /home/user/data /home/user/videos && chown user /home/user/*

FROM package AS mario
# A compiler for the emulator, and what OpenCV links to.
RUN apt-get update && apt-get install --yes --no-install-recommends g++ libgl1 libglib2.0-0
RUN python -m pip install ".[mario]"
USER user
WORKDIR /home/user
COPY data/mario-1-1-last agents/mario-1-1-last
# Fails while the image is built if something is missing.
RUN python -m spinup_tf2.run test_policy agents/mario-1-1-last/mario-1-1-last_s0 -n 1 --len 100 --record check
RUN rm -r check
CMD ["python", "-m", "spinup_tf2.run", "test_policy", "agents/mario-1-1-last/mario-1-1-last_s0", "-n", "1", "--record", "videos"]

FROM package AS training
USER user
WORKDIR /home/user
# Fails while the image is built if something is missing: one process, and two.
RUN python -m spinup_tf2.run ppo --env CartPole-v1 --exp_name check --epochs 1 --steps_per_epoch 100 --quiet
RUN mpirun -np 2 python -m spinup_tf2.run ppo --env CartPole-v1 --exp_name check_mpi --epochs 1 --steps_per_epoch 100 --quiet
RUN python -m spinup_tf2.run test_policy data/check/check_s0 -d -n 1 --record check
RUN rm -r data/check data/check_mpi check
CMD ["python", "-m", "spinup_tf2.run", "ppo", "--env", "CartPole-v1"]

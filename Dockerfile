# spinup_tf2 on a processor, with MPI and videos:
#
#     docker build -t spinup_tf2 .
#     docker run --rm spinup_tf2
#     docker run --rm -v "$PWD/data:/home/user/data" spinup_tf2 \
#         python -m spinup_tf2.run ppo --env CartPole-v1 --exp_name mine
FROM python:3.11-slim

# Everything compiled comes in wheels, MPICH too. pygame draws without a display.
ENV PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    SDL_VIDEODRIVER=dummy \
    SPINUP_TF2_DATA_DIR=/home/user/data

WORKDIR /opt/spinup_tf2
COPY setup.py pyproject.toml README.md LICENSE ./
COPY spinup_tf2 spinup_tf2
RUN python -m pip install ".[mpi,video]"

RUN useradd --create-home user && mkdir /home/user/data && chown user /home/user/data
USER user
WORKDIR /home/user

# Fails while the image is built if something is missing: one process, and two.
RUN python -m spinup_tf2.run ppo --env CartPole-v1 --exp_name check --epochs 1 --steps_per_epoch 100 --quiet
RUN mpirun -np 2 python -m spinup_tf2.run ppo --env CartPole-v1 --exp_name check_mpi --epochs 1 --steps_per_epoch 100 --quiet
RUN python -m spinup_tf2.run test_policy data/check/check_s0 -d -n 1 --record videos
RUN rm -r data/check data/check_mpi videos

CMD ["python", "-m", "spinup_tf2.run", "ppo", "--env", "CartPole-v1"]

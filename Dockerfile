# softmatch in a container, as a user without rights. The base image decides between CPU and GPU.
#   CPU:  docker build -t softmatch .
#   CUDA: docker build -t softmatch:cuda --build-arg BASE=nvidia/cuda:12.8.1-runtime-ubuntu24.04 --build-arg TORCH=torch .
#   docker run --rm -v "$PWD:/data" softmatch train photos/
#   docker run --rm --gpus all --shm-size 2g -v "$PWD:/data" softmatch:cuda train photos/
ARG BASE=python:3.12-slim
FROM ${BASE}
# A requirement for torch, such as one for a build without CUDA where your package index has one.
ARG TORCH=torch
ARG EXTRAS=text,web,onnx,tables
RUN if ! command -v python3 >/dev/null || ! python3 -m venv --help >/dev/null 2>&1; then \
        apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*; \
    fi
RUN python3 -m venv /opt/softmatch && /opt/softmatch/bin/pip install --no-cache-dir "${TORCH}"
COPY pyproject.toml README.md LICENSE /source/
COPY softmatch /source/softmatch
COPY docs/methods /source/docs/methods
RUN /opt/softmatch/bin/pip install --no-cache-dir "/source[${EXTRAS}]" && /opt/softmatch/bin/pip check
RUN useradd --create-home softmatch && mkdir /data && chown softmatch /data
USER softmatch
WORKDIR /data
ENV PATH=/opt/softmatch/bin:$PATH PYTHONUNBUFFERED=1
ENTRYPOINT ["softmatch"]
CMD ["--help"]

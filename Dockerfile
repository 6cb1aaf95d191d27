# The memory of one agent as a container: its notes in /workspace, index and settings in /state.
#
#   docker build --tag memory-gateway .
#   docker run --rm --volume ~/.openclaw/workspace:/workspace memory-gateway
#
# docs/operations.md says how programs ask it, and whose the files are.

FROM python:3.13-slim AS build
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv --without-pip /opt/memory-gateway
# The locked libraries are a layer of their own: a change of the code does not fetch them again.
COPY requirements.lock ./
RUN pip --python /opt/memory-gateway install --require-hashes --only-binary :all: --requirement requirements.lock --constraint requirements.lock
COPY . ./
RUN pip --python /opt/memory-gateway install --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home gateway \
    && install --directory --owner gateway --group gateway --mode 0700 /workspace /state
COPY --from=build /opt/memory-gateway /opt/memory-gateway
ENV PATH=/opt/memory-gateway/bin:$PATH OPENCLAW_STATE_DIR=/state PYTHONDONTWRITEBYTECODE=1
# By number, which whoever runs the image can check without its /etc/passwd.
USER 10001
VOLUME ["/workspace", "/state"]
# A degraded gateway (exit code 1: no embeddings, say) still answers, and is no reason to restart it.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["sh", "-c", "memory-gateway health --workspace /workspace || [ $? -eq 1 ]"]
ENTRYPOINT ["memory-gateway"]
CMD ["serve", "--socket-only", "--workspace", "/workspace"]

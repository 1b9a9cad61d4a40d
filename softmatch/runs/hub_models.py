"""Models on the Hugging Face hub, hf://owner/name[@revision]: read as run folders, with known files of limited size; uploads."""

import re
import sys
from pathlib import Path

from softmatch.encoders.downloads import LOG_IN, download, is_out_of_reach
from softmatch.errors import InputError, first_line


def upload(folder: Path, repo: str, private: bool) -> str:
    """Upload all files of a folder to owner/name, which is created if it does not exist, and return its address.

    Args:
        private: only its owners see the repository. A public one that exists already is refused.
    """
    try:
        from huggingface_hub import HfApi, constants, get_token
    except ImportError as error:
        raise InputError("--to hub needs the library of the Hugging Face hub: pip install 'softmatch[hub]'.") from error
    if get_token() is None:
        raise InputError(f"{repo} was not uploaded: you are not logged in. Please {LOG_IN}. The files are in {folder}.")
    api, public = HfApi(), False
    try:
        name = api.create_repo(repo, private=private or None, exist_ok=True).repo_id
        public = private and not api.model_info(name).private
        if not public:
            api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload a softmatch model")
    except Exception as error:  # the network, the hub and its library have their own errors
        raise InputError(f"{repo} was not uploaded: {_explain(error, repo)} The files are in {folder}.") from error
    if public:
        raise InputError(
            f"{repo} was not uploaded: it exists and is public. Make it private in its settings, or leave out --private."
        )
    return f"{constants.ENDPOINT}/{name}"


def _explain(error: Exception, repo: str) -> str:
    """Say what is wrong and what to do."""
    if type(error) is RuntimeError and isinstance(error.__cause__, Exception):  # of a single file
        return _explain(error.__cause__, repo)
    reason, status = first_line(error).rstrip("."), getattr(getattr(error, "response", None), "status_code", None)
    if type(error).__name__ == "HFValidationError":
        return "a repository is given as owner/name, in letters, digits, - _ and dots."
    if is_out_of_reach(error):
        return f"the hub cannot be reached ({reason}). Check the connection, HTTPS_PROXY and HF_HUB_OFFLINE."
    if status == 401:
        return f"your token is not accepted. To get another, {LOG_IN}."
    if status in (403, 404):
        owner = repo.partition("/")[0]
        return f"there is no owner {owner!r}, or your token may not write there. Check the name and the rights of the token."
    return f"{reason}."


ADDRESS = re.compile(r"hf:/{1,2}([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?")
"""One slash is left of two where the address has become a Path."""
FILES = {"model/model.json": 2**25, "model/model.safetensors": 2**35, "model/preparation.safetensors": 2**33}
"""The files that are fetched, and their largest sizes in bytes."""
COPIES = "give a folder that `softmatch export RUN --to hub` has written."


def is_on_hub(run: Path | str) -> bool:
    """Tell whether a run is the address of a model on the hub."""
    return _text(run).startswith("hf:/")


def find_run(run: Path | str) -> Path:
    """Give the folder of a run; a model on the hub is downloaded, or taken from the disk where the hub cannot be reached."""
    if not is_on_hub(run):
        return Path(run)
    if (parts := ADDRESS.fullmatch(_text(run))) is None:
        raise InputError(f"{_text(run)} is not an address: give hf://owner/name or hf://owner/name@revision.")
    name, revision = parts[1], parts[2]
    try:
        folder = download("model", name, revision, tuple(FILES), COPIES, FILES)
    except ImportError as error:
        raise InputError(f"{_text(run)} needs the library of the Hugging Face hub: pip install 'softmatch[hub]'.") from error
    except InputError as error:
        if not is_out_of_reach(error.__cause__) or (there := _on_disk(name, revision)) is None:
            raise
        print(f"The hub cannot be reached: the copy of {name} on this disk is used.", file=sys.stderr)
        folder = there
    if not (folder / "model" / "model.json").is_file():
        raise InputError(f"model {name!r} has no model/model.json: softmatch has not written it.")
    return folder


def outputs(run: Path | str) -> Path:
    """Folder for files that are made with a run: its own, or the current one for a model on the hub."""
    return Path() if is_on_hub(run) else Path(run)


def _on_disk(name: str, revision: str | None) -> Path | None:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=list(FILES), local_files_only=True))
    except Exception:  # the library has several errors for files that are not there
        return None
    return folder if all((folder / file).is_file() for file in list(FILES)[:2]) else None


def _text(run: Path | str) -> str:
    return run.as_posix() if isinstance(run, Path) else run

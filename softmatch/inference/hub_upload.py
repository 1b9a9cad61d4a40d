"""Upload of an exported model to a repository of the Hugging Face hub."""

from pathlib import Path

from softmatch.encoders.downloads import LOG_IN, is_out_of_reach
from softmatch.errors import InputError, first_line


def upload(folder: Path, repo: str, private: bool) -> str:
    """Upload all files of a folder to owner/name, which is created if it does not exist, and return its address.

    Args:
        private: only its owners see the repository. A public one that exists already is refused.

    Raises:
        InputError: not logged in, no right to write, no such owner, or the hub cannot be reached.
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

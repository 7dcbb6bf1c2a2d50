"""Spinning Up's conversion of settings to JSON, from `spinup_tf2.files.serialization`."""

from spinup_tf2.files.serialization import convert_json, is_json_serializable

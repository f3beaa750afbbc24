#!/bin/sh
# SPDX-License-Identifier: MIT
# dates_gru.sh [MORE OPTIONS of qkv train]: trains models/dates-gru, the recurrent model of dates.sh.
ONLY=dates-gru exec "$(dirname "$0")/dates.sh" "$@"

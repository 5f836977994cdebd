# shellcheck shell=bash
# Part of tests: `configuration REMOUNTS [SETTING]...` prints what pjdfstest can be told that a file system can do and Linux
# has, whether it may remount, and further lines of its settings. Its two users every Debian has.

configuration() {
    cat <<TOML
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}

[settings]
# Seconds between two changes whose times must differ; those on the mount are in nanoseconds.
naptime = 0.01
allow_remount = $1
$(printf '%s\n' "${@:2}")

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
TOML
}

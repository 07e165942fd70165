# Installs the routers that measurements compare warden with. To be sourced;
# sets $peers, the folder they are found in. What cannot be installed is said
# and left out: the measurement names it as absent.
peers="${XDG_CACHE_HOME:-$HOME/.cache}/warden/peers"
mkdir -p "$peers"

say() { echo "$(basename "$0" .sh): $*" >&2; }

debian() { # PACKAGE: installed where that is ours to do
	[ "$(id -u)" = 0 ] && { apt-get install -y -qq "$1" || { apt-get update -qq && apt-get install -y -qq "$1"; }; } >/dev/null 2>&1
}

pypi() { # PACKAGE VERSION: a virtual environment outside the checkout, kept
	local dir="$peers/$1-$2"
	[ -e "$dir/complete" ] && return
	rm -rf "$dir"
	if python3 -m venv "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check "$1==$2"; then
		touch "$dir/complete"
	else
		rm -rf "$dir"
		say "$1 $2 cannot be installed here"
	fi
}

# Debian starts nginx where it installs it, on port 80: only its program is
# wanted, so that is taken out of the package.
nginx_peer() {
	command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] && return
	local dir="$peers/nginx"
	[ -e "$dir/complete" ] && return
	rm -rf "$dir" && mkdir -p "$dir/bin"
	if (cd "$dir" && { apt-get download nginx || { apt-get update -qq && apt-get download nginx; }; } && dpkg -x nginx_*.deb . &&
		rm nginx_*.deb && ln -s ../usr/sbin/nginx bin/nginx && bin/nginx -v) >/dev/null 2>&1; then
		touch "$dir/complete"
	else
		rm -rf "$dir"
		say "nginx cannot be installed here"
	fi
}

haproxy_peer() { command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || debian haproxy || say "haproxy cannot be installed here"; }
vllm_router_peer() { pypi vllm-router 0.1.17; }
smg_peer() { pypi smg 1.13.0; }

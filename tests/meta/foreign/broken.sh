#!/bin/sh
# A command that is a runner, broken in the way of its first argument.
way=$1 count=$4 images=$5 results=$6
echo "this is $way" >&2
case $way in
not-implemented) exit 77 ;;
hangs) sleep 600 ;;
noise) yes noise | head -c 70000000 ;;
dies) head -c 100 "$images" >"$results"; kill -KILL $$ ;;
too-many) cat "$images" "$images" >"$results" ;;
nothing) ;;
fails) exit 3 ;;
raises) python3 -c None.x; exit 1 ;;
unchanged) cp "$images" "$results" ;;
esac

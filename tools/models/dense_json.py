"""JSON for committed files: as many fields and elements in a line as fit, so that a difference is seen and files are short."""

import json

MOST_COLUMNS = 118


def dense(value, indent=" "):
    text = json.dumps(value)
    if len(indent + text) <= MOST_COLUMNS or not isinstance(value, (dict, list)):
        return text
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {dense(one, indent + ' ')}" for key, one in value.items()]
    else:
        items = [dense(one, indent + " ") for one in value]
    lines = [""]
    for item in items:
        if len(indent + lines[-1] + item) > MOST_COLUMNS and lines[-1]:
            lines.append("")
        lines[-1] += ("" if lines[-1] == "" else " ") + item + ","
    begin, end = text[0], text[-1]
    return f"{begin}\n" + "\n".join(indent + line for line in lines).removesuffix(",") + f"\n{indent[1:]}{end}"


def write(path, value):
    path.write_text(dense(value) + "\n", encoding="utf-8")

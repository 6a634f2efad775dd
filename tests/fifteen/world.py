"""What the servers work on: a folder, and a site on the loopback address."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
import zipfile
from pathlib import Path

PAGE = b"<html><head><title>Page</title></head><body><article><p>A page on this machine.</p></article></body></html>"

_CONTENT_TYPES = """<?xml version="1.0" encoding="UTF-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/xl/workbook.xml"
 ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>
<Override PartName="/xl/worksheets/sheet1.xml"
 ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>
</Types>"""
_RELATIONSHIPS = """<?xml version="1.0" encoding="UTF-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Target="{target}"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{type}"/>
</Relationships>"""
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_WORKBOOK = f"""<?xml version="1.0" encoding="UTF-8"?>
<workbook {_MAIN} xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">
<sheets><sheet name="Numbers" sheetId="1" r:id="rId1"/></sheets></workbook>"""
_SHEET = f"""<?xml version="1.0" encoding="UTF-8"?>
<worksheet {_MAIN}><sheetData>
<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c></row>
</sheetData></worksheet>"""

_PDF_OBJECTS = (
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]>>",
)
# No cluster is there.
_KUBECONFIG = """apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
"""


def fill(folder: Path) -> None:
    """Makes everything that the table of servers mentions."""
    for name in ("home", "files", "papers", "documents", "logs"):
        (folder / name).mkdir()
    (folder / "files" / "a.txt").write_text("ärger\n")
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["counts"]}
    (folder / "memory.jsonl").write_text(json.dumps(entity) + "\n")
    (folder / "kubeconfig").write_text(_KUBECONFIG)
    _sheet(folder / "sheet.xlsx")
    _pdf(folder / "page.pdf")
    for arguments in (
        ("init", "--quiet", "--initial-branch=main", "repository"),
        ("-C", "repository", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        + ("commit", "--quiet", "--allow-empty", "--message=first"),
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)


class Site(http.server.ThreadingHTTPServer):
    """Answers every request: with a page, or below /api with an empty object."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        api = self.path.startswith("/api")
        body = b"{}" if api else PAGE
        # There is no robots.txt.
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "application/json" if api else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _sheet(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", _CONTENT_TYPES)
        to_workbook = _RELATIONSHIPS.format(target="xl/workbook.xml", type="officeDocument")
        archive.writestr("_rels/.rels", to_workbook)
        archive.writestr("xl/workbook.xml", _WORKBOOK)
        to_sheet = _RELATIONSHIPS.format(target="worksheets/sheet1.xml", type="worksheet")
        archive.writestr("xl/_rels/workbook.xml.rels", to_sheet)
        archive.writestr("xl/worksheets/sheet1.xml", _SHEET)


def _pdf(path: Path) -> None:
    text = "%PDF-1.4\n"
    places = []
    for number, content in enumerate(_PDF_OBJECTS, start=1):
        places.append(len(text))
        text += f"{number} 0 obj{content}endobj\n"
    size = len(places) + 1
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    text += (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(text)}\n%%EOF\n"
    )
    path.write_text(text)
